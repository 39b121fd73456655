module.exports = {
  title: "Admin",
  intro: "Welcome to admin.",
};
