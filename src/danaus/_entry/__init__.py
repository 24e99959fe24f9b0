"""Entry points of processes that Danaus starts: they join the layers below them."""
