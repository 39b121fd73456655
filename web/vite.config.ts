import { defineConfig } from "vitest/config";

// The server sends `style-src 'self'; script-src 'self'`: nothing may be inlined into the page.
export default defineConfig({
  // files with fixed names; below `src`, so that the digest of the sources covers them
  publicDir: "src/public",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  resolve: {
    // the whole of it would change how all other screens handle events
    alias: { "preact/compat": new URL("./src/ui/compat.ts", import.meta.url).pathname },
  },
  build: {
    outDir: "../src/rookery/manager/web/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    reportCompressedSize: true,
  },
  test: {
    include: ["src/**/*.test.{ts,tsx}", "scripts/*.test.mjs"],
    environment: "happy-dom",
    // one thread for all files: loading a document for each takes longer than all tests
    pool: "threads",
    isolate: false,
    maxWorkers: 1,
    setupFiles: ["scripts/reset-tests.mjs"],
  },
});
