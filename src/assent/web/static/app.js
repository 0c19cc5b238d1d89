// @ts-check
/** Starts the scripts on every page. They manage the cursor, focus and open elements; the server does the rest. */

import { startBulk } from "./bulk.js";
import { startCopying } from "./copy.js";
import { startDialogs } from "./dialogs.js";
import { startGuards } from "./guards.js";
import { startKeys } from "./keys.js";
import { startList } from "./list.js";
import { startLive } from "./live.js";
import { startNotices } from "./notices.js";
import { startPalette } from "./palette.js";
import { startPickers } from "./picker.js";
import { startSuggestions } from "./suggestions.js";
import { startTimes } from "./times.js";

document.documentElement.classList.add("scripted");
startTimes();
startCopying();
startGuards();
startDialogs();
startList();
startBulk();
startNotices();
startPalette();
startPickers();
startSuggestions();
startKeys();
startLive();
