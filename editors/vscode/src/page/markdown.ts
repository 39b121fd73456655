/** A little Markdown as elements. Text stays text: no HTML, no links, no images. */
import { visibleText } from "../../../../web/src/visible-text.ts";

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*/g;

export function element(name: string, className = "", text = ""): HTMLElement {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = visibleText(text);
  return made;
}

export function markdown(text: string): DocumentFragment {
  const parts = document.createDocumentFragment();
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const fence = /^\s*(`{3,})/.exec(lines[at]!)?.[1];
    if (fence) {
      const start = ++at;
      while (at < lines.length && !lines[at]!.trim().startsWith(fence)) at++;
      parts.append(element("pre", "code", lines.slice(start, at).join("\n")));
    } else if (lines[at]!.trim()) {
      parts.append(line(lines[at]!));
    }
  }
  return parts;
}

function line(text: string): HTMLElement {
  const heading = /^#{1,6} (.*)/.exec(text);
  if (heading) return inline(element("p", "heading"), heading[1]!);
  const item = /^\s*(?:[-*]|(\d+)[.)]) (.*)/.exec(text);
  if (item) return inline(element("p", "item"), `${item[1] ? `${item[1]}.` : "•"} ${item[2]}`);
  return inline(element("p"), text);
}

function inline(into: HTMLElement, text: string): HTMLElement {
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    into.append(visibleText(text.slice(end, found.index)));
    into.append(found[2] ? element("code", "", found[2]) : element("b", "", found[3]));
    end = found.index + found[0].length;
  }
  into.append(visibleText(text.slice(end)));
  return into;
}
