"""A model of the paper's migration protocol, which no engine uses: new owners as a stream runs.

One `Manager` and the `ProtocolInstance` s of all operators exchange messages. Neither does anything
itself: ``handle`` takes one event and returns what the process is afterwards, and what is to be
sent or done. So every interleaving and every crash can be tried, and the tests try them.

The protocol, with the numbers of the paper's figure 6: the manager asks all instances for metrics
①, gets them ②, has new owners worked out, saves them, sends them to all ③, and waits for every
acknowledgement ④. It tells the sources to switch ⑤. An instance that got this from all that feed
it routes by the new owners from then on, sends the state of keys that it no longer owns to their
new owners ⑥, and tells all it feeds to switch ⑤. Tuples that come before the state of their key
wait for it.

What is asked of the engine: a channel from one process to another is first in, first out;
what ``handle`` returned (the instance after it, and its messages) is made durable as one; after a
crash, messages that were not known to have arrived are sent again, from any one on, in order. The
manager keeps only what it saved, and any last part of what it sent may be lost.

Where Algorithm 1 is silent, this is what is done:

1. *Early messages.* An instance can be sent state, and tuples routed by the new owners, before
   the last ⑤ has reached it, as its siblings and feeders need not wait for it. It takes the state
   at once. A tuple waits unless this instance owned the key before or has its former owner's ⑥.
2. *Keys the lists cannot know.* The lists ③ of keys to send and to receive are made of metrics
   that are older than ⑤: a key that is first seen in between would stay behind. (Lists of all
   keys that either table names suffice as long as the number of instances stays; with another
   number, hashed keys move as well.) Here an instance goes through the keys it holds when it
   switches, sends one ⑥ to each sibling, and takes one for "that is all I had". What it sends is
   what `grouping.migration.reconfiguration.reconfigure` lists for the keys held at that moment.
3. *Keys without state.* A tuple may wait for a key that never had any, so ⑥ is sent empty too.
4. *Waiting.* ⑤ goes on as soon as an instance routes by the new owners and has sent its state. To
   wait for its siblings' state first, as published, delays all operators behind it for nothing.
5. *The end.* No message tells the manager that all is over, and a second reconfiguration that
   begins within the first would mix their messages. Each instance sends `Done`; until all have,
   another wish waits. All messages of a reconfiguration carry its epoch.
6. *A crash of the manager.* It does not know how far it had come, so it sends what it saved to all
   again. Instances answer as they would have: those that are done acknowledge and say `Done`
   again. ⑤ is said again only to the sources, who ignore what they have done already. A crash
   before saving leaves no trace but metrics sent in vain.
7. *A crash of an instance.* Messages come again, so instances number what they send each other
   and pass over what they had. ⑤ is counted by sender, answers to the manager by sender and epoch.
8. *Whose table.* An instance routes by the tables of the operators it feeds, and sends its state
   by that of its own; both change in the same step.

References:
    Caneill, El Rheddane, Leroy, De Palma, "Locality-aware routing in stateful streaming
    applications", Middleware 2016, section 3.4 and Algorithm 1.
"""

from grouping.migration.instance import ProtocolInstance
from grouping.migration.manager import Manager, Phase
from grouping.migration.messages import (
    MANAGER,
    OUTSIDE,
    Ack,
    Address,
    Begin,
    Configuration,
    DataTuple,
    Decide,
    Decided,
    Done,
    Event,
    GetMetrics,
    Instruction,
    Job,
    Message,
    Migrate,
    Propagate,
    Save,
    Saved,
    SendMetrics,
    SendReconfiguration,
)

__all__ = [
    "MANAGER",
    "OUTSIDE",
    "Ack",
    "Address",
    "Begin",
    "Configuration",
    "DataTuple",
    "Decide",
    "Decided",
    "Done",
    "Event",
    "GetMetrics",
    "Instruction",
    "Job",
    "Manager",
    "Message",
    "Migrate",
    "Phase",
    "Propagate",
    "ProtocolInstance",
    "Save",
    "Saved",
    "SendMetrics",
    "SendReconfiguration",
]
