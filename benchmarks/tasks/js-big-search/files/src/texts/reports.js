module.exports = {
  title: "Reports",
  intro: "Welcome to reports.",
};
