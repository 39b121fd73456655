const { capitalize } = require("./utils");

function title(text) {
  return text.split(" ").map(capitalize).join(" ");
}

module.exports = { title };
