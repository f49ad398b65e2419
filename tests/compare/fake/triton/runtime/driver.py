class _Config:
    active = None

    def set_active(self, driver):
        self.active = driver


driver = _Config()
