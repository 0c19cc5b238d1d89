"""The JSON shapes that the API and the SDK share, a module for each noun; no behaviour."""
