"""Links: frames over sockets, driven by one loop a process."""
