const assert = require("node:assert");
const fs = require("node:fs");

const answer = fs.readFileSync(process.env.ANSWER, "utf8");
assert.match(answer, /\bsummarize\b/);
assert.doesNotMatch(answer, /\bheader\b/);
