"""What a person sees of a running system.

The output of processes passes through these modules, each of which can be imported alone:

* `lines`: which lines does a stream of bytes hold, and which were its last?
* `record`: what is a line of output, and whose is it?
* `merge`: which lines did several ranks print alike, just now?
* `aggregate`: which lines of a whole window resemble each other?
* `template`: how is a group of similar lines written as one?
* `progress`: which progress bar is shown, and when?
* `render`: which text goes to which stream of the client?
* `console`: the standard streams of the client.
* `feed`: in which way is the output of one mesh shown?
* `printer`: the thread that prints.
"""

__all__: list[str] = []
