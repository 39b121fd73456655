/**
 * The only way for HTML to enter the page. Accepts only HTML that the server rendered and sanitised
 * (`html` of rows, inbox rows and diff lines); everything else is text.
 */
interface Policy {
  createHTML(html: string): unknown;
}

interface Rules {
  createHTML?: (html: string) => string;
  createScriptURL?: (url: string) => string;
}

declare global {
  interface Window {
    trustedTypes?: { createPolicy(name: string, rules: Rules): Policy & { createScriptURL(url: string): unknown } };
  }
}

const policy: Policy = globalThis.window?.trustedTypes?.createPolicy("rookery", {
  createHTML: (html) => html,
}) ?? { createHTML: (html) => html };

/** For `dangerouslySetInnerHTML`. */
export function sanitised(html: string): { __html: string } {
  return { __html: policy.createHTML(html) as string };
}
