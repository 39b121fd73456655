/** The frame of a page: heading, tools, and scrolling content. */
import type { ComponentChildren } from "preact";

import type { RequestState } from "../requests";
import { Button, Notice, Spinner } from ".";
import "./page-frame.css";

export function PageFrame({
  title,
  before,
  tools,
  wide,
  children,
}: {
  title: ComponentChildren;
  /** For example a back link. */
  before?: ComponentChildren;
  tools?: ComponentChildren;
  wide?: boolean;
  children: ComponentChildren;
}) {
  return (
    <>
      <header class="page-head">
        {before}
        <h1 class="grow cut">{title}</h1>
        {tools}
      </header>
      <div class="page-body">
        <div class={wide ? "sheet" : "sheet page-column"}>{children}</div>
      </div>
    </>
  );
}

/** Shows the answer, a spinner while it loads, or an error. */
export function Loaded<T>({
  of,
  waiting,
  children,
}: {
  of: RequestState<T>;
  waiting: string;
  children: (answer: T) => ComponentChildren;
}) {
  return (
    <>
      {of.problem && (
        <Notice tone="bad" icon="alert">
          <div class="notice-row">
            <span class="grow">{of.problem}</span>
            <Button compact icon="retry" onClick={of.reload}>
              Retry
            </Button>
          </div>
        </Notice>
      )}
      {of.answer !== null && children(of.answer)}
      {of.answer === null && !of.problem && (
        <div class="sheet-waiting">
          <Spinner label={waiting} />
          <span aria-hidden="true">{waiting}</span>
        </div>
      )}
    </>
  );
}
