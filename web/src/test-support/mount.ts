/** Renders components and interacts with them, for tests. */
import { type ComponentChild, render } from "preact";
import { act } from "preact/test-utils";

export async function mount(component: ComponentChild): Promise<HTMLElement> {
  const place = document.createElement("div");
  document.body.replaceChildren(place);
  await act(() => render(component, place));
  return place;
}

export function button(place: HTMLElement, words: string): HTMLButtonElement {
  const found = [...place.querySelectorAll("button")].find((each) => {
    const label = `${each.textContent} ${each.getAttribute("aria-label") ?? ""}`;
    return label.includes(words);
  });
  if (!found) throw new Error(`there is no button ${words} in ${place.textContent}`);
  return found;
}

export async function click(place: HTMLElement, words: string): Promise<void> {
  await act(() => button(place, words).click());
}

export async function type(field: HTMLInputElement | HTMLTextAreaElement, words: string): Promise<void> {
  await act(() => {
    field.value = words;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

export async function press(field: HTMLElement, key: string, more: KeyboardEventInit = {}): Promise<void> {
  await act(() => void field.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more })));
}
