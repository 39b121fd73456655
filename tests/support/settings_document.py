"""`docs/settings.md`, written from the settings. `make pages` runs this."""

from pathlib import Path

from rookery import ENV_PREFIX, NAME, PROJECT_FOLDER
from rookery.core.settings_reference import PROJECT_MAY, Key, all_settings, shown, variable_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


def document() -> str:
    lines = [
        "# Settings",
        "",
        f"<!-- Made by `make pages`; edit src/{NAME}/core/settings.py instead. -->",
        "",
        "The first of these that has a setting decides:",
        "",
        "1. a flag of the command line;",
        f"2. an environment variable: the key in capitals after `{ENV_PREFIX}`, with `_` between",
        f"   section and name, as in `{variable_of(('model',))}` and "
        f"`{variable_of(('ui', 'colour'))}`; an empty one counts as absent;",
        f"3. the project's `{PROJECT_FOLDER}/settings.toml`, which can only tighten, and only",
        "   where the tables below say so;",
        f"4. your own file, `~/.config/{NAME}/settings.toml` on Linux and",
        f"   `~/Library/Application Support/{NAME}/settings.toml` on macOS, or",
        f"   `${ENV_PREFIX}HOME/config/settings.toml`; `{NAME} settings` prints where it is;",
        "5. the default.",
        "",
        "Both files are TOML. A setting of a section is written below its `[section]`. Models",
        "that are not known by themselves, or are known wrongly, are described one by one below",
        '`[models."<id>"]`, and what you change about a mode stands below `[modes.<slug>]`; both',
        "in your own file only.",
    ]
    section: Key | None = None
    for key, setting in all_settings().items():
        if key[:-1] != section:
            section = key[:-1]
            lines += ["", f"## [{'.'.join(section)}]" if section else "## Without a section", ""]
            lines += ["| setting | may be | default | a project may | meaning |"]
            lines += ["| --- | --- | --- | --- | --- |"]
        default = "" if setting.default is None else f"`{shown(setting.default)}`"
        cells = (setting.expected, default, PROJECT_MAY.get(key, ""), setting.sentence)
        lines += [f"| `{key[-1]}` | {' | '.join(cells)} |"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
