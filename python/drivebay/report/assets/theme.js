// Applies the reader's stored choice of colours before anything is drawn.
try {
  const theme = localStorage.getItem("drivebay-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch (e) {
  // A file:// page may have no storage; then the preference of the system applies.
}
