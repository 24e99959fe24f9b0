"""Pure state machines: they decide, and their drivers act.

Nothing in this package reads a clock, opens a file, starts a thread or draws a random number.
Time is an argument (`now`, seconds as a float of any monotonic clock), and so are randomness and
ids. Each module answers one question and can be imported alone:

* `inbox`: in which order are messages delivered, and which of them are duplicates?
* `session`: which frames must be sent again after a connection broke?
* `cast`: which host forwards a cast to whom, and who takes over when a relay dies?
* `gather`: which replies of a cast go up, when, and in which frame?
* `liveness`: which peers are alive, suspected, or dead?
* `supervision`: who is told of a failure, and what falls with it?
* `health`: may a call on a slice of a mesh go ahead?
* `recent`: what is known of things that have ended?
* `history`: what did a machine see last, when one of its invariants breaks?
"""

__all__: list[str] = []
