"""Where things stand."""

CSS = """
Screen { background: $background; color: $foreground; }
HeaderBar { height: 1; padding: 0 1; dock: top; background: $band; }
#bottom { height: auto; dock: bottom; background: $background; }
Transcript { height: 1fr; padding: 0 0 0 1; background: $background; scrollbar-size-vertical: 1; }
#welcome { height: 1fr; padding: 1 3; color: $foreground; display: none; }
#queue { height: auto; max-height: 5; padding: 0 1; display: none; }
AttachedLine { height: 1; padding: 0 1; display: none; }
#slot { height: auto; max-height: 11; padding: 0 1; display: none; }
Page { height: 1fr; }
AskPanel {
    height: auto; padding: 0 1 0 2; display: none;
    border-top: solid $line; border-left: none; background: $background;
}
AskPanel:focus { border-top: solid $primary; }
#ask-title { height: auto; padding: 0 1; }
#ask-body { height: 3; padding: 0 0 0 1; scrollbar-size-vertical: 1; }
#ask-footing { height: auto; padding: 0 1; margin-top: 1; }
#ask-keys { height: 1; padding: 0 1; margin-top: 1; }
#input { height: auto; border-top: solid $line; border-bottom: solid $line; }
#input:focus-within { border-top: solid $primary; border-bottom: solid $primary; }
#input > #prompt { width: 2; padding: 0 0 0 1; color: $primary; text-style: bold; }
Composer {
    height: auto; min-height: 1; max-height: 8; width: 1fr; padding: 0 1 0 1; border: none;
    background: $background; color: $foreground; scrollbar-size-vertical: 1;
}
Composer:focus { border: none; }
Composer > .text-area--placeholder { color: $quiet; }
Composer > .text-area--cursor-line { background: $background; }
StatusLine { height: 1; padding: 0 1; }
"""
