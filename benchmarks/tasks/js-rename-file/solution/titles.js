const { capitalize } = require("./strings");

function title(text) {
  return text.split(" ").map(capitalize).join(" ");
}

module.exports = { title };
