// The original service listens on every interface. This script, loaded first, restricts it to loopback.
"use strict";

const net = require("node:net");

const { listen } = net.Server.prototype;

net.Server.prototype.listen = function onLoopback(port, ...rest) {
  return listen.call(this, port, "127.0.0.1", ...rest);
};
