const { parse } = require("./parse.js");

const words = process.argv.slice(2);
const values = parse(words.filter((word) => word !== "--json"));
if (words.includes("--json")) {
  console.log(JSON.stringify(values));
} else {
  for (const [name, value] of Object.entries(values)) {
    console.log(`${name}=${value}`);
  }
}
