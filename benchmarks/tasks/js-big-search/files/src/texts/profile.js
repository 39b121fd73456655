module.exports = {
  title: "Profile",
  intro: "Welcome to profile.",
};
