/** Before each file of tests: nothing of the page, nor of what it keeps, is left of the one before. */
import { vi } from "vitest";

vi.resetModules();
if (globalThis.document) {
  document.body.replaceChildren();
  localStorage.clear();
  sessionStorage.clear();
  location.hash = "";
}
