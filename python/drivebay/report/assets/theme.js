// Before anything is drawn: the reader's choice of colours, if one is remembered.
try {
  const theme = localStorage.getItem("drivebay-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch (e) {
  // A file:// page may have no storage; then the system's preference decides.
}
