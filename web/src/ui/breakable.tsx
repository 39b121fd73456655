import type { ComponentChildren } from "preact";

/** Characters without a blank before a line may be broken; browsers freeze at very long ones. */
const LONG_RUN = /(\S{500})/;

/** A text that others wrote, with places to break it where it has none itself. */
export function breakable(text: string): ComponentChildren {
  const parts = text.split(LONG_RUN);
  if (parts.length === 1) return text;
  return parts.map((part, place) => (place % 2 ? [part, <wbr key={place} />] : part));
}
