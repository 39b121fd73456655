module.exports = "delta";
