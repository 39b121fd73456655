/**
 * The one way for HTML into the page. Only what the server has rendered and sanitised itself may
 * come here (`html` of rows, inbox rows and diff lines); all else is text.
 */
interface Policy {
  createHTML(html: string): unknown;
}

declare global {
  interface Window {
    trustedTypes?: { createPolicy(name: string, rules: { createHTML: (html: string) => string }): Policy };
  }
}

const policy: Policy = globalThis.window?.trustedTypes?.createPolicy("rookery", {
  createHTML: (html) => html,
}) ?? { createHTML: (html) => html };

/** For `dangerouslySetInnerHTML`. */
export function sanitised(html: string): { __html: string } {
  return { __html: policy.createHTML(html) as string };
}
