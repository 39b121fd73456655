import type { ComponentChildren } from "preact";

/** Browsers freeze on very long words, so they get a line break opportunity after this many characters. */
const LONG_RUN = /(\S{500})/;

/** Untrusted text, with line break opportunities in long words. */
export function breakable(text: string): ComponentChildren {
  const parts = text.split(LONG_RUN);
  if (parts.length === 1) return text;
  return parts.map((part, place) => (place % 2 ? [part, <wbr key={place} />] : part));
}
