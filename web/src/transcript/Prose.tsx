import { useLayoutEffect, useRef } from "preact/hooks";
import { sanitised } from "../html";
import type { Row } from "../protocol";
import { memo } from "../ui";
import { breakable } from "../ui/breakable";
import { visibleText } from "../visible-text";
import { restOf } from "./row-content";

const Block = memo(function Block({ html }: { html: string }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => makeScrollable(place.current!), [html]);
  return <div ref={place} dangerouslySetInnerHTML={sanitised(html)} />;
});

/** The rendered part of a text, followed by the rest, which may still be streaming. */
export function Prose({ row }: { row: Pick<Row, "text" | "html" | "html_upto"> }) {
  const rest = restOf(row);
  return (
    <div class="prose">
      {row.html?.map((html, at) => (
        <Block key={at} html={html} />
      ))}
      {rest.trim() && <div class="prose-rest">{breakable(visibleText(rest.replace(/^\n+/, "")))}</div>}
    </div>
  );
}

/** Code and tables wider than the text can be scrolled with the keyboard in every browser. */
function makeScrollable(place: HTMLElement): void {
  for (const wide of place.querySelectorAll<HTMLElement>("pre, table")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
  }
}
