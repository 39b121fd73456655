/**
 * The shells that this page has open, one per session, up to six. A shell stays while its panel is closed; it
 * ends with the page. After a reconnect it is a new one.
 */
import { type Signal, signal } from "@preact/signals";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { connection } from "../connection";
import type { Subscription } from "../rpc";
import { adoptStyles } from "./adopted-styles";
import { fromBase64, toBase64 } from "./base64";

/** Bytes of one message; a longer paste is sent in pieces. */
const PIECE = 64_000;
/** Beyond this, opening another shell ends the oldest one. */
const MOST_SHELLS = 6;
const NEW_SHELL = "The connection was lost and the shell has ended. This is a new shell.\r\n";

export interface Shell {
  /** Draws the terminal into an element and keeps its size. Returns a function that takes it out. */
  show(place: HTMLElement, focus: boolean): () => void;
  /** Why the shell has ended; null while it runs. */
  readonly ended: Signal<string | null>;
  close(): void;
}

const shells = new Map<string, Shell>();

/** The shell of a session; a new one if there is none. */
export function shellOf(session_id: string): Shell {
  const known = shells.get(session_id);
  if (known) return known;
  const [oldest] = shells.values();
  if (shells.size >= MOST_SHELLS) oldest?.close();
  const shell = openShell(session_id);
  shells.set(session_id, shell);
  return shell;
}

function openShell(session_id: string): Shell {
  const terminal = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 13,
    scrollback: 5_000,
    screenReaderMode: true,
    theme: themeOf(),
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  const ended = signal<string | null>(null);
  const place = document.createElement("div");
  place.className = "terminal-screen";
  let subscription: Subscription | null = null;
  /** What was typed before the shell was there; null since then. */
  let early: Uint8Array[] | null = [];

  const ask = (method: string, fields: object) => subscription?.ask(method, fields).catch(() => undefined);
  const size = () => ({ columns: terminal.cols, rows: terminal.rows });
  const start = () => {
    subscription = connection.follow("open_terminal", { session_id, size: size() }, {
      restart: () => {
        terminal.reset();
        if (!early) terminal.write(NEW_SHELL);
        void ask("resize_terminal", { size: size() });
        const typed = early ?? [];
        early = null;
        typed.forEach(send);
      },
      onMessage: (message) => {
        const bytes = fromBase64((message as { data: string }).data);
        terminal.write(bytes, () => void ask("acknowledge_output", { count: bytes.length }));
      },
      ended: (problem) => {
        ended.value = problem || "The shell has ended.";
      },
    });
  };
  const send = (bytes: Uint8Array) => {
    if (early) return void early.push(bytes);
    for (let at = 0; at < bytes.length; at += PIECE) {
      void ask("type_in_terminal", { data: toBase64(bytes.subarray(at, at + PIECE)) });
    }
  };
  terminal.onData((text) => send(new TextEncoder().encode(text)));
  terminal.onBinary((text) => send(Uint8Array.from(text, (each) => each.charCodeAt(0))));
  terminal.attachCustomKeyEventHandler((event) => {
    const leaves = event.shiftKey && event.key === "F6";
    if (leaves) place.closest(".side-panel")?.querySelector<HTMLElement>('[role="tab"][aria-selected="true"]')?.focus();
    return !leaves;
  });
  terminal.onResize(() => void ask("resize_terminal", { size: size() }));

  return {
    ended,
    show: (element, focus) => {
      element.append(place);
      const restore = adoptStyles(document);
      if (!terminal.element) terminal.open(place);
      const refit = () => place.clientHeight > 0 && fit.fit();
      refit();
      if (!subscription) start();
      const observer = new ResizeObserver(refit);
      observer.observe(element);
      const themes = new MutationObserver(() => (terminal.options.theme = themeOf()));
      themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
      if (focus) terminal.focus();
      return () => {
        observer.disconnect();
        themes.disconnect();
        place.remove();
        restore();
      };
    },
    close: () => {
      subscription?.stop();
      terminal.dispose();
      shells.delete(session_id);
    },
  };
}

function themeOf() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    background: colour("--panel"),
    foreground: colour("--text"),
    cursor: colour("--accent"),
    selectionBackground: colour("--chosen"),
    red: colour("--bad"),
    green: colour("--good"),
    yellow: colour("--careful"),
    blue: colour("--accent"),
    magenta: colour("--rest"),
    cyan: colour("--code-type"),
    black: colour("--text"),
    white: colour("--quiet"),
    brightBlack: colour("--faint"),
  };
}
