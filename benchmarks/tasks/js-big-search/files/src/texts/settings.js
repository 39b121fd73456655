module.exports = {
  title: "Settings",
  intro: "Welcome to settings.",
};
