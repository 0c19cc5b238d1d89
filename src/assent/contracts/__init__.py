"""The JSON models that the API and the SDK share, without behavior, in a module for each resource."""
