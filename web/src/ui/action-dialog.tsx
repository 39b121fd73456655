import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useAction } from "../requests";
import { Button, type ButtonProps } from "./button";
import { Dialog } from "./dialog";
import { Problem } from "./small";

/** A dialog for one action. It says why if the action fails, and stays open. */
export function ActionDialog({
  title,
  close,
  wide,
  words,
  act,
  checkAgain,
  again,
  others,
  waiting,
  hint,
  children,
  ...button
}: {
  title: string;
  close: () => void;
  wide?: boolean;
  /** What the button says. */
  words: ComponentChildren;
  act: () => Promise<void>;
  /** Checks again what would be done; offered if the action failed, or with `again`. */
  checkAgain?: () => void;
  again?: boolean;
  /** Further buttons. */
  others?: ComponentChildren;
  /** Shown while it works. */
  waiting?: ComponentChildren;
  /** Why the button is disabled. */
  hint?: string | undefined;
  /** What is in the dialog; `run` does the action. */
  children: ComponentChildren | ((run: () => void) => ComponentChildren);
} & Pick<ButtonProps, "kind" | "icon" | "disabled">) {
  const [problem, setProblem] = useState("");
  const action = useAction(setProblem);
  const run = () =>
    void action.run(() => {
      setProblem("");
      return act();
    });
  const tryAgain = () => {
    setProblem("");
    checkAgain?.();
  };
  return (
    <Dialog
      title={title}
      close={close}
      wide={wide}
      foot={
        <>
          <Button onClick={close}>{action.busy ? "Close" : "Cancel"}</Button>
          {checkAgain && (problem || again) && (
            <Button icon="retry" onClick={tryAgain}>
              Check again
            </Button>
          )}
          {others}
          <Button kind="primary" {...button} title={hint} busy={action.busy} onClick={run}>
            {words}
          </Button>
        </>
      }
    >
      {typeof children === "function" ? children(run) : children}
      {action.busy && waiting}
      <Problem words={problem} />
    </Dialog>
  );
}
