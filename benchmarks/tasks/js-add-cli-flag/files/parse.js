function parse(words) {
  const values = {};
  for (const word of words) {
    const [name, value] = word.split("=");
    values[name] = value;
  }
  return values;
}

module.exports = { parse };
