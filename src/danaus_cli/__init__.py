"""The command line of Danaus."""
