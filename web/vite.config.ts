import { defineConfig } from "vitest/config";

// The server sends `style-src 'self'; script-src 'self'`: nothing may be inlined into the page.
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/rookery/manager/web/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    reportCompressedSize: true,
  },
  test: {
    projects: [
      {
        extends: true,
        test: { name: "logic", include: ["src/**/*.test.ts", "scripts/*.test.mjs"], environment: "happy-dom", isolate: false },
      },
      // each has a document, and a connection, of its own
      { extends: true, test: { name: "drawn", include: ["src/**/*.test.tsx"], environment: "happy-dom" } },
    ],
  },
});
