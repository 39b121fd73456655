module.exports = "beta";
