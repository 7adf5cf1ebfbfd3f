"""The board: runs in the browser, on this machine only."""
