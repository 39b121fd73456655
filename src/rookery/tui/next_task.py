"""What is chosen while there is no task, and holds for the next one."""

import uuid

from rookery.core.blocks import Image
from rookery.core.commands import OpenTask, SelectIntent, SwitchApproval, SwitchModel
from rookery.core.queries import AskIntents, KnownIntent
from rookery.errors import CommandRejected
from rookery.protocol.host_interface import Host


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

    def opening(self, text: str, images: tuple[Image, ...], mode: str) -> OpenTask:
        """What opens it, so that all choices hold for its very first request."""
        model = self._model
        return OpenTask(
            task_id=self.task_id,
            text=text,
            images=images,
            mode=mode,
            provider=model.provider if model else "",
            model=model.model if model else "",
            automatic=self.automatic,
            intent=self.intent.id if self.intent else "",
        )

    def begun(self) -> None:
        """It was opened; another one is next."""
        self.task_id = str(uuid.uuid4())
        self._approval = self.intent = None


async def _intent(intent_id: str, host: Host) -> KnownIntent:
    known = {each.id: each for each in await host.query(AskIntents())}
    if intent_id not in known:
        raise CommandRejected(f"There is no intent {intent_id}. /intent shows all.")
    intent = known[intent_id]
    if intent.problem:
        raise CommandRejected(f"{intent_id} cannot be selected: {intent.problem}.")
    return intent
