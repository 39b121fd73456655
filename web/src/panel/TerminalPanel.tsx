/** The user's own shell where the session works. Loaded on first use, with xterm.js. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { SessionRow } from "../protocol";
import { Button, Key, Notice } from "../ui";
import { visibleLine } from "../visible-text";
import { shellOf } from "./shells";
import "@xterm/xterm/css/xterm.css";

export default function TerminalPanel({ row }: { row: SessionRow }) {
  const place = useRef<HTMLDivElement>(null);
  const [round, setRound] = useState(0);
  const shell = shellOf(row.session_id);
  const ended = shell.ended.value;
  const restarted = useRef(false);
  useLayoutEffect(() => {
    // not if the panel appears with another session: the next keys are not for a shell
    const focus = restarted.current || place.current!.closest(".side-panel")!.contains(document.activeElement);
    restarted.current = false;
    return shell.show(place.current!, focus);
  }, [shell, round]);
  const restart = () => {
    restarted.current = true;
    shell.close();
    setRound(round + 1);
  };
  return (
    <div class="terminal-panel">
      <p class="terminal-note quiet small" title={visibleLine(row.workspace)}>
        Your own shell in {row.worktree_id ? "the worktree" : "the project"}, not the agent's: no sandbox, no approvals.{" "}
        <span class="wide-only">
          <Key>Shift</Key> <Key>F6</Key> leaves it.
        </span>
      </p>
      {ended !== null && (
        <Notice icon="info">
          {visibleLine(ended)}{" "}
          <Button compact icon="retry" onClick={restart}>
            New shell
          </Button>
        </Notice>
      )}
      <div class="terminal-place" ref={place} />
    </div>
  );
}
