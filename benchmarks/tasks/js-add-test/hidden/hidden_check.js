const assert = require("node:assert");
const fs = require("node:fs");
const { spawnSync } = require("node:child_process");

const source = fs.readFileSync("words.js", "utf8");
const passes = (text) => {
  fs.writeFileSync("words.js", text);
  return spawnSync(process.execPath, ["--test", "--test-reporter=tap", "test.js"]).status === 0;
};

assert.ok(passes(source), "the tests fail with the right function");
assert.ok(!passes(source.replace(".filter(Boolean)", "")), "the empty text is not tested");
assert.match(fs.readFileSync("test.js", "utf8"), /hello world/);
