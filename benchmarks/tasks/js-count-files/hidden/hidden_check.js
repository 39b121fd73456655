const assert = require("node:assert");
const fs = require("node:fs");

assert.strictEqual(fs.readFileSync("count.txt", "utf8").trim(), "5");
