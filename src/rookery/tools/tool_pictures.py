"""Pictures that a tool has read, as the model of its task can see them."""

from rookery.core import pictures
from rookery.core.pictures import TOGETHER, Picture, Sight
from rookery.engine.ports import FileBytes, ToolContext

__all__ = ["TOGETHER", "Picture", "picture"]


def picture(file: FileBytes, ctx: ToolContext, room: int) -> Picture | None:
    """None if it is none. `room` is what is left for pictures in this call."""
    sight = Sight(sees=ctx.sees_images, most=ctx.limits.image_bytes, room=room)
    return pictures.picture(file.data, sight, complete=bool(file.sha))
