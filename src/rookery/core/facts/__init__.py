"""Everything that can happen in a task, one small value for each kind of happening.

Facts are in the past tense and never change. A task's log is the sequence of its facts; its
state, its chat rows and the history its model sees are folds over that log. A `Passing`
fact is only news: it is shown while it is fresh, never written to disk, and always
superseded by a lasting one.
"""

from rookery.core.facts.events import *  # noqa: F403
from rookery.core.facts.session import *  # noqa: F403
from rookery.core.facts.work import *  # noqa: F403
