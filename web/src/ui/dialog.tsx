import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "./button";

/** A modal dialog. The browser keeps the focus in it and closes it on Escape; then the focus returns. */
export function Dialog({
  title,
  close,
  wide,
  foot,
  children,
}: {
  title: string;
  close: () => void;
  wide?: boolean;
  foot?: ComponentChildren;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const pressed = useRef<EventTarget | null>(null);
  useLayoutEffect(() => {
    const shown = dialog.current!;
    const before = document.activeElement as HTMLElement | null;
    shown.showModal();
    return () => {
      shown.close();
      // the dialog is out of the document by now, so the browser does not restore the focus
      before?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onPointerDown={(event) => (pressed.current = event.target)}
      onClick={(event) => {
        // not after a selection that was dragged out of a field
        if (event.target === dialog.current && pressed.current === dialog.current) close();
      }}
    >
      <header class="dialog-head">
        <h2 id={heading}>{title}</h2>
        <Button kind="plain" icon="cross" label="Close" onClick={close} />
      </header>
      <div class="dialog-body">{children}</div>
      {foot && <footer class="dialog-foot">{foot}</footer>}
    </dialog>
  );
}

interface Question {
  title: string;
  words: ComponentChildren;
  yes: string;
  danger?: boolean;
  answer: (yes: boolean) => void;
}

const openQuestion = signal<Question | null>(null);

/** Asks the user to confirm an action. */
export function confirm(question: Omit<Question, "answer">): Promise<boolean> {
  openQuestion.value?.answer(false);
  return new Promise((resolve) => {
    const answer = (yes: boolean) => {
      openQuestion.value = null;
      resolve(yes);
    };
    openQuestion.value = { ...question, answer };
  });
}

/** Shows the question of `confirm`. */
export function Confirmation() {
  const question = openQuestion.value;
  if (!question) return null;
  const no = () => question.answer(false);
  return (
    <Dialog
      title={question.title}
      close={no}
      foot={
        <>
          <Button onClick={no}>Cancel</Button>
          <Button kind={question.danger ? "danger" : "primary"} onClick={() => question.answer(true)}>
            {question.yes}
          </Button>
        </>
      }
    >
      {question.words}
    </Dialog>
  );
}
