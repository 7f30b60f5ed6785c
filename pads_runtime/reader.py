"""What is done with the words of the open turn: the classifier judges them, the engine follows them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from .crew import Crew
from .errors import EngineAborted, EngineDead, EngineError
from .gate.premise import canonical, normalise
from .history import History
from .reply import engine_cost_s


class Reader:
    """One of each at a time: the same words are judged once, and one prefill runs."""

    def __init__(self, crew: Crew, history: History, emit: Callable[..., None]) -> None:
        self._crew, self._history, self._emit = crew, history, emit
        self._judged = ""
        self._following = False

    def forget(self) -> None:
        """A new turn: the same words may be said again."""
        self._judged = ""

    def unjudged(self, text: str) -> bool:
        """Whether these words are new; asked once for each."""
        words = normalise(text)
        if not words or words == self._judged:
            return False
        self._judged = words
        return True

    async def p_deep(self, text: str) -> float:
        """What the classifier says of ``text``."""
        crew = self._crew
        answer = await crew.acts.run(crew.stages.acts.p_deep, text, cost=crew.costs.classifier_call_s)
        return float(answer)

    def may_follow(self) -> bool:
        """Whether ``follow`` is wanted and free; it is taken if so."""
        free = self._crew.settings.engine.follow != "none" and not self._following
        self._following = self._following or free
        return free

    async def follow(self, stable: str) -> None:
        """Prefill what is stable. It only saves time: if it cannot be done, the turn goes on without."""
        crew = self._crew
        messages = self._history.prompt(self._history.rows, canonical(stable))
        try:
            # A branch that is cancelled while this waits in line aborts it too; what was prefilled by then is kept.
            with contextlib.suppress(EngineAborted):
                await crew.engine.run(
                    crew.stages.engine.follow, messages, cost=lambda counts: engine_cost_s(counts, crew.costs)
                )
        except EngineDead:
            raise
        except EngineError as exc:
            self._emit("follow_failed", error=str(exc))
        finally:
            self._following = False
