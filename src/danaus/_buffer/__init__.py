"""Memory that others read and write without its owner's Python taking part."""
