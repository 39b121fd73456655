module.exports = "epsilon";
