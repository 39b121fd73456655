const { parse } = require("./parse.js");

const values = parse(process.argv.slice(2));
for (const [name, value] of Object.entries(values)) {
  console.log(`${name}=${value}`);
}
