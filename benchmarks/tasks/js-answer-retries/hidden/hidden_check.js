const assert = require("node:assert");
const fs = require("node:fs");

const answer = fs.readFileSync(process.env.ANSWER, "utf8").toLowerCase();
const numbers = answer.match(/\d+/g) || [];
assert.ok(!numbers.includes("20") && !numbers.includes("45"), answer);
assert.ok(numbers.includes("6") || /\bsix\b/.test(answer), answer);
