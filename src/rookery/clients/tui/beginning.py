"""What is chosen while there is no task, and holds for the next one."""

import uuid
from collections.abc import Sequence

from rookery.core.commands import Command, SelectIntent, SwitchApproval, SwitchModel
from rookery.core.queries import AskIntents, KnownIntent
from rookery.errors import CommandRejected
from rookery.wire.host import Host


class Beginning:
    """The next task, before it is opened. A model that was chosen holds for those after it too;
    what it works for, and that it acts unasked, holds for this one only."""

    def __init__(self) -> None:
        self.task_id = str(uuid.uuid4())
        self._model: SwitchModel | None = None
        self._approval: SwitchApproval | None = None
        self.intent: KnownIntent | None = None

    @property
    def model(self) -> str:
        return self._model.model if self._model else ""

    @property
    def automatic(self) -> bool | None:
        return self._approval.automatic if self._approval else None

    def remember(self, model: SwitchModel) -> None:
        self._model = model

    async def choose(self, choice: SwitchModel | SwitchApproval | SelectIntent, host: Host) -> None:
        """Raises `CommandRejected` if the host would not have that model, or that intent."""
        match choice:
            case SelectIntent(intent_id=intent_id):
                self.intent = await _intent(intent_id, host) if intent_id else None
            case SwitchApproval():
                self._approval = choice
            case SwitchModel(provider=provider, model=model):
                await self._check(
                    SwitchModel(task_id=self.task_id, provider=provider, model=model), host
                )
                self._model = choice

    async def _check(self, switch: SwitchModel, host: Host) -> None:
        # a host looks at the model first: what it says of the task is only that there is none yet
        try:
            await host.send(switch)
        except CommandRejected as refusal:
            if self.task_id not in str(refusal):
                raise

    def begun(self) -> Sequence[Command]:
        """What the task is told that has just been opened; another one is next."""
        task_id, self.task_id = self.task_id, str(uuid.uuid4())
        told: list[Command] = []
        if (model := self._model) is not None:
            told.append(SwitchModel(task_id=task_id, provider=model.provider, model=model.model))
        if (approval := self._approval) is not None:
            told.append(SwitchApproval(task_id=task_id, automatic=approval.automatic))
        if (intent := self.intent) is not None:
            told.append(SelectIntent(task_id=task_id, intent_id=intent.id))
        self._approval = self.intent = None
        return told


async def _intent(intent_id: str, host: Host) -> KnownIntent:
    known = {each.id: each for each in await host.query(AskIntents())}
    if intent_id not in known:
        raise CommandRejected(f"There is no intent {intent_id}. /intent shows all.")
    intent = known[intent_id]
    if intent.problem:
        raise CommandRejected(f"{intent_id} cannot be selected: {intent.problem}.")
    return intent
