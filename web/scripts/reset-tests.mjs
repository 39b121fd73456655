/** Resets the modules, the document and the storage before each test file. */
import { vi } from "vitest";

vi.resetModules();
if (globalThis.document) {
  document.body.replaceChildren();
  localStorage.clear();
  sessionStorage.clear();
  location.hash = "";
}
