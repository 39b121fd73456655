/**
 * Lets xterm.js draw under the page's content security policy, which blocks style elements and style
 * attributes: its style sheets are adopted, and its attributes become properties. It has no option
 * for that, so `createElement` is another one while a terminal is shown.
 */
export function adoptStyles(page: Document): () => void {
  page.createElement = ((tag: string) => elementFor(page, tag)) as Document["createElement"];
  return () => {
    delete (page as { createElement?: unknown }).createElement;
  };
}

function elementFor(page: Document, tag: string): HTMLElement {
  if (tag === "style") return styleElement(page);
  const element = made(page, tag);
  const setAttribute = element.setAttribute.bind(element);
  element.setAttribute = (name: string, value: string) => {
    if (name === "style") element.style.cssText = value;
    else setAttribute(name, value);
  };
  return element;
}

/** Stands for a style element: its text is a style sheet for as long as it is in the document. */
function styleElement(page: Document): HTMLElement {
  const element = made(page, "span");
  const sheet = new CSSStyleSheet();
  element.hidden = true;
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
  page.adoptedStyleSheets.push(sheet);
  const remove = element.remove.bind(element);
  element.remove = () => {
    page.adoptedStyleSheets = page.adoptedStyleSheets.filter((each) => each !== sheet);
    remove();
  };
  return element;
}

function made(page: Document, tag: string): HTMLElement {
  return Document.prototype.createElement.call(page, tag);
}
