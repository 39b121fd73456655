module.exports = {
  title: "Upload",
  intro: "Welcome to upload.",
};
